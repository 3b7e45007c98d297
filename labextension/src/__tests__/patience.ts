/** How long a test waits for a screen: only against hanging, since a busy machine may need seconds. */

import { configure } from '@testing-library/react';

configure({ asyncUtilTimeout: 60_000 });

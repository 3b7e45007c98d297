import './base.css';
import './card.css';
import './parts.css';
import './switchboard.css';
import './money.css';
import './replay.css';
import 'uplot/dist/uPlot.min.css';
import './load.css';

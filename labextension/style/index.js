import './base.css';
import './switchboard.css';
import './money.css';
import './replay.css';

import './base.css';
import './switchboard.css';

import { render } from 'preact';
import { Store } from './store';
import './style/style.css';
import { followTheme } from './theme';
import { Root } from './ui/app';

followTheme();
const store = new Store();
render(<Root store={store} />, document.getElementById('root')!);
void store.start();

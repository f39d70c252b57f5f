import { render } from 'preact';
import { Store } from './store';
import './style/style.css';
import { Root } from './ui/app';

const store = new Store();
render(<Root store={store} />, document.getElementById('root')!);
void store.start();

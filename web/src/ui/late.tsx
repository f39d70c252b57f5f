// What the page draws without: it is loaded behind the rest.

export { AskDialog } from './ask';
export { Drawer } from './drawer';
export { Tour } from './tour';

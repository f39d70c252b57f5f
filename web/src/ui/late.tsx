// What the page draws without: it is loaded behind the rest.

export { AskDialog } from './ask';
export { EditChip } from './chip';
export { Drawer } from './drawer';
export { Tour } from './tour';
export { Waiting } from './waiting';

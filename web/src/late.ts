// What the page draws rarely: it is loaded behind the rest.

export { AskDialog } from './ui/ask';
export { EditChip } from './ui/chip';
export { Drawer } from './ui/drawer';
export { Tour } from './ui/tour';
export { Waiting } from './ui/waiting';

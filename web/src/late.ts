// What the page draws rarely: it is loaded behind the rest.

export { EditChip } from './ui/chip';
export { Dialogs } from './ui/dialogs';
export { Drawer } from './ui/drawer';
export { OldReply } from './ui/old';
export { Tour } from './ui/tour';
export { Waiting } from './ui/waiting';

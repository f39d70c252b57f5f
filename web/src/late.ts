// What the page draws rarely: it is loaded behind the rest.

export { Archived } from './ui/archived';
export { EditChip } from './ui/chip';
export { Dialogs } from './ui/dialogs';
export { Drawer } from './ui/drawer';
export { OldReply } from './ui/old';
export { Rename } from './ui/rename';
export { Settings } from './ui/settings';
export { Snooze } from './ui/snooze';
export { Tour } from './ui/tour';
export { Waiting } from './ui/waiting';

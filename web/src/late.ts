// What the page draws rarely: it is loaded behind the rest. That it names the page's own code too puts
// this into one file, which is smaller when it is compressed than two are.

import './store';
import './ui/app';

export { Archived } from './ui/archived';
export { EditChip } from './ui/chip';
export { Dialogs } from './ui/dialogs';
export { Drawer } from './ui/drawer';
export { Gateway } from './ui/gateway';
export { OldReply } from './ui/old';
export { Rename } from './ui/rename';
export { Settings } from './ui/settings';
export { Snooze } from './ui/snooze';
export { Tour } from './ui/tour';
export { Waiting } from './ui/waiting';

// Package window decides when an AppProject's sync windows let an Application
// sync.
//
// A window opens at the times of a cron schedule in its time zone and stays open
// for a duration. The rules are Argo CD's:
//
//   - an Application that no window selects may always sync;
//   - while a deny window is open it may not, whatever else is open;
//   - if allow windows select it, one of them must be open;
//   - by hand it may sync nevertheless if every window that is in the way says
//     manualSync;
//   - what has begun may end, if every window that is in the way says
//     syncOverrun.
//
// It promises that schedules follow the clock on the wall: times that a change
// to summer time skips open their window when the clock jumps, and times that
// come twice open it twice. Decisions say until when they hold, so nobody has to
// ask again before.
//
// It refuses nothing silently: a window that is malformed counts as an open deny
// window for what it selects, with the reason, because its author wanted some
// syncs not to happen and we cannot know which.
package window

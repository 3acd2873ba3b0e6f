// Package window decides when an AppProject's sync windows let an Application
// sync.
//
// A window opens at the times of a cron schedule in its time zone and stays
// open for a duration. The rules are Argo CD's. An Application that no window
// selects may always sync. While a deny window is open it may not, even if an
// allow window is open. If allow windows select it, one of them must be open. A
// user may sync nevertheless if every blocking window has manualSync. A sync
// that has started may finish if every blocking window has syncOverrun.
//
// Schedules follow the wall clock: a time that a change to summer time skips
// opens its window when the clock jumps, and a time that comes twice opens it
// twice. That is why the schedules are not those of a cron library (decision
// 0027). Decisions carry the time until which they hold, so that callers set
// one timer.
//
// A malformed window counts as an open deny window for what it selects, with
// the reason: its author wanted to prevent some syncs, and it is not known
// which.
package window

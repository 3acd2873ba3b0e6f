// Package migrate moves an Application from an Argo CD to a runtime, and back, with
// its resources untouched (R29).
//
// Argo CD and a runtime read the same kind, each in its own namespaces. Moving an
// Application means: Argo CD's is held (no automated sync, nothing deleted with it,
// not looked at), ours is made without automated sync and finalizers, the resources
// get our marks beside Argo CD's, the runtime compares them with Git, Argo CD's is
// deleted alone, and ours gets its automated sync and finalizers. Each of these steps
// looks first whether it is done, so that a move that was interrupted goes on when it
// is started again, and can be taken back from everywhere.
//
// It promises that at every moment at most one of the two syncs by itself, that an
// Application that would take its resources along is never deleted, and that nothing
// but labels and annotations of resources is written: uids and generations stay. What
// Argo CD had is kept on the Applications themselves, and is put back exactly.
//
// It refuses an Application that asks for what we do not do, that another Application
// or an ApplicationSet would write again, that is being synced or deleted, or that is
// for another cluster. It never reads the content of a resource.
package migrate

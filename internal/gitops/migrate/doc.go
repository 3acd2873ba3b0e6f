// Package migrate moves an Application from an Argo CD to a runtime, and back,
// without touching its resources (R29).
//
// Argo CD and a runtime read the same kind, each in its own namespaces. A move
// has these steps: Argo CD's Application is held (no automated sync, no
// finalizers, skipped by its controller); ours is created without automated
// sync and finalizers; the resources get our marks beside Argo CD's; the
// runtime compares them with Git; Argo CD's Application is deleted without its
// resources; ours gets the automated sync and the finalizers. Each step first
// checks whether it is done, so that an interrupted move continues when it is
// started again, and can be undone from every point.
//
// It promises that at most one of the two syncs automatically at any time, that
// an Application with a cascading finalizer is never deleted, and that only
// labels and annotations of resources are written: UIDs and generations stay.
// Argo CD's settings are stored on the Applications themselves and restored
// exactly.
//
// An ApplicationSet is moved with its Applications: its controller would write
// them again. Ours generates nothing until they are moved.
//
// It refuses an Application with unsupported fields, one that another
// Application or an ApplicationSet would write again, one that is being synced
// or deleted, and one for another cluster. It never reads the content of a
// resource.
package migrate

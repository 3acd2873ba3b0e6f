// Package inspect reads Applications from outside of the reconcile loop, and
// requests operations by writing into them. `slipway app` uses it with a user's
// own rights, and the agent's API on behalf of the platform.
//
//	application   get, list, follow and patch Applications
//	operate       sync, rollback, terminate, refresh
//	tree          the objects of an Application with the objects they own
//	reader        the same repeatedly, with a cache
//	scope         the objects a tree is read from, and their changes
//	compare       the diff that a sync would make
//	mask          manifests without the values of Secrets
//	logs          logs of an Application's containers
//	project       the limits of an Application's project
//
// It promises that a running or waiting operation is never disturbed, that no
// manifest or diff contains a value of a Secret, and that nothing in the
// cluster changes but the named Application.
//
// It refuses nothing on behalf of a user: the connection decides the rights. A
// caller that acts for others uses [Strict], which shows only objects of the
// Application.
//
// See decision 0028 in docs/decisions: the text diff stays ours.
package inspect

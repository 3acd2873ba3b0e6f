// Package inspect looks at Applications from outside the loop that makes them
// live, and asks for things by writing into them: what `slipway app` does with a
// person's own rights, and what the agent's API does for the platform.
//
//	application   read, list, follow and patch Applications
//	operate       sync, rollback, terminate, refresh
//	tree          the objects of an Application with what they own
//	reader        the same again and again, where something may have changed
//	scope         what a tree is read from, and changes of it
//	compare       what a sync would change
//	mask          manifests without the values of Secrets
//	logs          what the containers of an Application have written
//	charter       what the project of an Application lets it touch
//
// It promises that an operation that runs or waits is never disturbed, that no
// manifest or difference that it gives has a value of a Secret, and that nothing
// in the cluster changes but the Application that is asked about.
//
// It refuses nothing on behalf of a person: whose rights count is decided by the
// connection that it is given. Who asks for others uses [Strict], so that only
// what belongs to the Application is seen.
package inspect

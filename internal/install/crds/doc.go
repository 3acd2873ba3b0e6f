// Package crds determines the owners of the CustomResourceDefinitions that a
// runtime needs or finds, adopts them for a Helm release, and releases them
// again.
//
// A definition belongs to a Helm release by one label and two annotations
// (R23). Helm itself creates the definitions of a chart when they are missing,
// and never changes or deletes them afterwards. [Upgrade] goes by these marks,
// so that definitions follow the runtime only where the user agreed to that.
//
// It promises that adopting writes nothing but these marks and a record of the
// previous ones, that releasing restores exactly that record, and that a
// definition whose marks changed since the plan is not written: the command
// fails and has to be planned again.
//
// It refuses to take a definition from a Helm release that exists, from Argo CD
// or from another tool, unless it is forced to, and it never deletes a
// definition, since that deletes every object of its kind.
package crds

// Package crds says whose the CustomResourceDefinitions are that a runtime needs or
// meets, takes them over for a Helm release, and gives them back.
//
// A definition belongs to a Helm release by one label and two annotations (R23).
// Helm itself makes the definitions of a chart when they are missing, and never
// changes or deletes them afterwards; the marks are what [Upgrade] goes by, so that
// definitions follow the runtime only where somebody agreed to that.
//
// It promises that adopting writes nothing but these marks and a record of what was
// there before, that releasing puts back exactly what the record has, and that a
// definition that changed since it was looked at is looked at again by a person: a
// write that others were faster than fails.
//
// It refuses to take a definition from a Helm release that is there, from Argo CD or
// from another tool, unless it is forced to, and it never deletes a definition, since
// that deletes every object of its kind.
package crds

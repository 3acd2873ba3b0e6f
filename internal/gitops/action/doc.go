// Package action has the actions of objects, such as the restart of a Deployment:
// which an object has, and what one would change.
//
// The actions are the Lua scripts of Argo CD's module and those of settings.
// Callers check every change that a script returns against the project before
// they write it.
//
// See decision 0046 in docs/decisions.
package action

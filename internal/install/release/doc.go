// Package release installs, upgrades and uninstalls a runtime with Helm's library:
// it plans, shows what it waits for, rolls back when health is not reached, and says
// what is left behind.
//
// It promises that a plan changes nothing; that releases are kept as Helm keeps them,
// so that helm list shows them; that a failed operation says why, from the conditions
// of Pods and from Events, and is undone unless somebody asked to keep it; and that
// everything which an uninstall leaves is named, with the command that removes it.
//
// CustomResourceDefinitions of a chart are made with the marks of the release when
// they are missing, and changed by an upgrade when they have these marks. Those of
// others are left alone, and none is ever deleted.
//
// It refuses to install over a release that is there, and to touch one that another
// operation works on. Secrets are in no line that it tells: who shows a plan masks
// the objects in it.
package release

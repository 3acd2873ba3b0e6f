// Package release installs, upgrades and uninstalls a runtime with Helm's
// library: it plans, reports what it waits for, rolls back when the release
// does not become healthy in time, and lists what is left behind.
//
// It promises that a plan changes nothing; that releases are stored as Helm
// stores them, so that helm list shows them; that the error of a failed
// operation has the reason, from the conditions of Pods and from Events, and
// that the operation is undone unless the caller keeps it; and that everything
// which an uninstall leaves is listed, with the command that removes it.
//
// CustomResourceDefinitions of a chart are created with the marks of the
// release when they are missing, and changed by an upgrade when they have these
// marks. Those of other owners are left alone, and none is ever deleted.
//
// It refuses to install over a release that exists, and to touch one that
// another operation works on. Secrets are in no line that it reports. The
// objects of a plan may contain them: mask them before they are shown.
//
// See decision 0042 in docs/decisions: repairs go through the release, and an
// upgrade takes over the fields of our own field managers.
package release

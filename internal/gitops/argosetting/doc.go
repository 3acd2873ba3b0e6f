// Package argosetting has the settings that an installation of Argo CD brings:
// every key of its ConfigMaps argocd-cm, argocd-cmd-params-cm and
// argocd-rbac-cm, and every field of its Secrets of repositories and clusters.
// Each has an effect here, and a text with the reason and what to do.
//
// The agent reports settings by it, the parsers of the Secrets refuse fields by
// it, and the report of a migration lists by it. So a setting has one
// description.
//
// It refuses to import anything: it is a table.
//
// See decision 0048 in docs/decisions.
package argosetting

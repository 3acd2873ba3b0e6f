package appcmd

import (
	"cmp"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/source/address"
)

// shownRevision formats the revision of one source, or of each of several. The
// list wins: Argo CD leaves the single field empty for several sources.
func shownRevision(revision string, revisions []string) string {
	if len(revisions) == 0 {
		return printer.ShortRevision(revision)
	}
	var short []string
	for _, each := range revisions {
		short = append(short, printer.ShortRevision(each))
	}
	return strings.Join(short, ",")
}

// shownSource formats a source in one line: repository, chart or path,
// revision, and the name that other sources refer to. An empty revision is
// HEAD, as Argo CD defines it.
func shownSource(source *v1alpha1.ApplicationSource) string {
	text := address.Redact(source.RepoURL)
	switch {
	// A chart has no path: the two exclude each other.
	case source.Chart != "":
		text += " chart " + source.Chart
	case source.Path != "":
		text += " path " + source.Path
	}
	revision := cmp.Or(source.TargetRevision, "HEAD")
	text += " at " + printer.ShortRevision(revision)
	if source.Ref != "" {
		text += " as $" + source.Ref
	}
	return text
}

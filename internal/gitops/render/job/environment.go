package job

// BuildEnvironment is Argo CD's build environment of a source: variables for its
// fields, and for config management plugins.
func BuildEnvironment(work *Job, source *Source) map[string]string {
	return map[string]string{
		"ARGOCD_APP_NAME":                   work.App,
		"ARGOCD_APP_NAMESPACE":              work.Namespace,
		"ARGOCD_APP_PROJECT_NAME":           work.Project,
		"ARGOCD_APP_REVISION":               source.Revision,
		"ARGOCD_APP_REVISION_SHORT":         firstChars(source.Revision, 7),
		"ARGOCD_APP_REVISION_SHORT_8":       firstChars(source.Revision, 8),
		"ARGOCD_APP_SOURCE_REPO_URL":        source.Source.RepoURL,
		"ARGOCD_APP_SOURCE_PATH":            source.Source.Path,
		"ARGOCD_APP_SOURCE_TARGET_REVISION": source.Source.TargetRevision,
	}
}

// firstChars is the beginning of a text: revisions of charts can be shorter
// than those of commits.
func firstChars(text string, count int) string { return text[:min(len(text), count)] }

// Package buildinfo returns the version of the program: from the linker in a
// release build, or from the build information of the Go tool.
package buildinfo

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// version and commit are set by the linker (-X) in a release build, and by
// nothing else.
var version, commit string

// Info identifies the running program. The JSON names are the output of slipway
// version --output json, on which scripts depend.
type Info struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Read returns the version from the linker, or else from the build information
// of the Go tool, as in a binary made by go install. A field without either is
// "unknown" and never empty, so that metrics and User-Agent headers have a
// value.
func Read() Info {
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		recorded = &debug.BuildInfo{}
	}
	return Info{
		Version:   cmp.Or(version, strings.Trim(recorded.Main.Version, "()"), "unknown"), // "(devel)" in a checkout
		Commit:    cmp.Or(commit, recordedCommit(recorded.Settings), "unknown"),
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// recordedCommit returns the commit that the Go tool recorded, marked as dirty
// if the checkout had changes.
func recordedCommit(settings []debug.BuildSetting) string {
	revision, changed := "", ""
	for _, setting := range settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

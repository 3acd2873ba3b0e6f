// Package buildinfo returns the version of the program: from the linker in a
// release build, or from what the Go tool recorded.
package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version and commit are set by the linker (-X) in a release build, and by
// nothing else.
var version, commit string

// Info identifies the running program.
type Info struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Read returns the version from the linker, or else from what the Go tool
// records, as in a binary made by go install.
func Read() Info {
	facts := Info{
		Version:   version,
		Commit:    commit,
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		recorded = &debug.BuildInfo{}
	}
	if facts.Version == "" {
		facts.Version = strings.Trim(recorded.Main.Version, "()") // "(devel)" in a checkout
	}
	if facts.Commit == "" {
		facts.Commit = recordedCommit(recorded.Settings)
	}
	if facts.Version == "" {
		facts.Version = "unknown"
	}
	if facts.Commit == "" {
		facts.Commit = "unknown"
	}
	return facts
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

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Set by the linker (-X) in a release build, and by nothing else.
var version, commit string

// buildFacts says what is running.
type buildFacts struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func versionCommand() *cobra.Command {
	output := "text"
	command := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return printVersion(command.OutOrStdout(), output)
		},
	}
	command.Flags().StringVar(&output, "output", output, "how to print it: text or json")
	return command
}

func printVersion(w io.Writer, output string) error {
	facts := readBuildFacts()
	switch output {
	case "text":
		_, err := fmt.Fprintf(w, "slipway %s\ncommit %s\n%s\n%s\n", facts.Version, facts.Commit, facts.GoVersion, facts.Platform)
		return err
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(facts)
	}
	return usageError{fmt.Errorf("--output %q is neither text nor json", output)}
}

// readBuildFacts takes the version from the linker, or else from what the Go
// tool records, as in a binary made by go install.
func readBuildFacts() buildFacts {
	facts := buildFacts{
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

// recordedCommit gives the commit that the Go tool recorded, marked when the
// checkout had changes.
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

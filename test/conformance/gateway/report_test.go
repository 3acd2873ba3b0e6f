package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/must"
)

// results are the results of a profile at one level of support.
type results struct {
	FailedTests []string
	Statistics  struct{ Passed, Failed, Skipped int }
}

// counts returns a line for each profile of a report, with its tests that
// failed, and the sum; all is the number of results.
func counts(t *testing.T, report []byte) (lines string, all int) {
	t.Helper()
	var content struct {
		Profiles []struct {
			Name           string
			Core, Extended results
		}
	}
	must.Do(t, yaml.Unmarshal(report, &content))
	var text strings.Builder
	passed := 0
	for _, profile := range content.Profiles {
		core, extended := profile.Core, profile.Extended
		for _, s := range []results{core, extended} {
			passed += s.Statistics.Passed
			all += s.Statistics.Passed + s.Statistics.Failed + s.Statistics.Skipped
		}
		fmt.Fprintf(&text, "%s: passed %d core and %d extended, failed %d and %d, skipped %d and %d: %s\n", profile.Name,
			core.Statistics.Passed, extended.Statistics.Passed, core.Statistics.Failed, extended.Statistics.Failed,
			core.Statistics.Skipped, extended.Statistics.Skipped, strings.Join(append(core.FailedTests, extended.FailedTests...), " "))
	}
	fmt.Fprintf(&text, "%d of %d passed", passed, all)
	return text.String(), all
}

// A report as the suite writes it.
func TestCounts(t *testing.T) {
	got, all := counts(t, []byte(`
profiles:
- name: GATEWAY-UDP
  core: {result: failure, statistics: {Passed: 18, Failed: 1, Skipped: 1}, failedTests: [A], skippedTests: [B]}
  extended: {result: failure, statistics: {Passed: 9, Failed: 1, Skipped: 0}, failedTests: [C]}
- name: GATEWAY-GRPC
  core: {result: success, statistics: {Passed: 15, Failed: 0, Skipped: 0}}
`))
	want := "GATEWAY-UDP: passed 18 core and 9 extended, failed 1 and 1, skipped 1 and 0: A C\n" +
		"GATEWAY-GRPC: passed 15 core and 0 extended, failed 0 and 0, skipped 0 and 0: \n" +
		"42 of 45 passed"
	if got != want || all != 45 {
		t.Errorf("got %d results\n%s\nwant\n%s", all, got, want)
	}
}

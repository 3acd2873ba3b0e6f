package platformcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/rights"
)

// TestRightsPolicy: the rules of the option and of the file count together, and a
// rule without effect prevents a start.
func TestRightsPolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.csv")
	must.Do(t, os.WriteFile(file, []byte("p, dev, applications, get, shop/.*, allow\n"), 0o600))
	policy := must.Get(rightsPolicy(config.Rights{
		Policy: "p, ops, applications, sync, .*/.*, allow", PolicyFile: file, MatchMode: "regex", PolicyDefault: "role:guest",
	}))(t)
	for request, want := range map[[3]string]bool{
		{"dev", "get", "shop/web"}: true, {"dev", "sync", "shop/web"}: false, {"ops", "sync", "bank/web"}: true,
	} {
		got := policy.Decide(rights.Request{Groups: []string{request[0]}, Resource: rights.Applications, Action: request[1], Object: request[2]})
		if got.Allowed != want {
			t.Errorf("%v: %+v", request, got)
		}
	}
	if got := policy.Excerpt(rights.Request{}); got.Default != "role:guest" {
		t.Errorf("the default role is %q", got.Default)
	}
	for want, options := range map[string]config.Rights{
		"rights.policy line 1": {Policy: "p, ops, applications, snyc, */*, allow", MatchMode: "glob"},
		"rights.policyFile":    {PolicyFile: file + ".absent", MatchMode: "glob"},
		"policy.csv line 1":    {PolicyFile: file, Policy: "# nothing", MatchMode: "glob"},
	} {
		if want == "policy.csv line 1" {
			must.Do(t, os.WriteFile(file, []byte("p, dev, applications, get\n"), 0o600))
		}
		if _, err := rightsPolicy(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

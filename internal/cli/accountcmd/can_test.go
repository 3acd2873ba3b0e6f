package accountcmd_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const canPolicy = `p, role:dev, applications, sync, shop/*, allow
p, role:dev, logs, get, shop/*, allow
p, role:dev, applications, delete, shop/db, deny
p, role:dev, applications, lst, shop/*, allow
g, dev, role:dev
`

const canManifests = `apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm, namespace: argocd}
data:
  policy.default: role:readonly
  policy.matchMode: regex
  policy.csv: |
    p, alice, applications, ^delete$, ^shop/, allow
---
apiVersion: v1
kind: List
items:
- apiVersion: argoproj.io/v1alpha1
  kind: AppProject
  metadata: {name: shop}
  spec:
    roles:
    - name: ci
      groups: [robots]
      policies: ["p, proj:shop:ci, applications, sync, shop/.*, allow"]
- apiVersion: v1
  kind: Secret
  metadata: {name: other}
  data: {a: eA==}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: argocd-cm}
  data: {server.rbac.disableApplicationFineGrainedRBACInheritance: "false"}
`

// TestCan: a policy in files is decided without a server, and yes, no and
// an error have an exit code each.
func TestCan(t *testing.T) {
	clitest.Clean(t)
	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		clitest.WriteFile(t, path, text)
		return path
	}
	csv, manifests := write("policy.csv", canPolicy), write("rbac.yaml", canManifests)
	second := write("second.yaml", canManifests)
	for _, test := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"sync shop/web --subject alice --groups ops,dev --policy " + csv, 0,
			"yes: a rule allows it to dev > role:dev\n  policy.csv line 1: p, role:dev, applications, sync, shop/*, allow\n",
			`No effect: policy.csv line 4: there is no action "lst"`},
		{"logs shop/web --groups dev --policy " + csv, 0, "yes: a rule allows it to dev > role:dev\n  policy.csv line 2: p, role:dev, logs, get, shop/*, allow\n", ""},
		{"exec shop/web --groups dev --policy " + csv, 1, "no: no rule allows dev to create exec shop/web\n", ""},
		{"delete shop/db --groups dev --policy " + csv, 1, "no: a rule denies it to dev > role:dev, and a deny wins over every allow\n  policy.csv line 3: p, role:dev, applications, delete, shop/db, deny\n", ""},
		{"get bank/web --subject role:dev --policy " + csv + " --default role:readonly", 0,
			"yes: the default role role:readonly allows it to every user, and no other rule can deny it\n  built-in line 2: p, role:readonly, applications, get, */*, allow\n", ""},
		{"delete cluster.example --resource clusters --subject role:admin --policy " + csv, 0, "yes: a rule allows it to role:admin\n  built-in line 16: p, role:admin, clusters, *, *, allow\n", ""},
		{"get bank/web --subject alice --policy " + manifests, 0, "yes: the default role role:readonly", ""},
		{"delete shop/web --subject alice --policy " + manifests, 0, "yes: a rule allows it to alice\n  data[policy.csv] line 1: p, alice,", ""},
		{"delete/apps/Deployment/shop/web shop/web --subject alice --policy " + manifests, 0, "yes: a rule allows it to alice; the right to delete an Application includes its resources", ""},
		{"sync shop/web --subject bob --groups robots --policy " + manifests, 0, "yes: a rule allows it to robots > proj:shop:ci\n  AppProject shop: p, proj:shop:ci,", ""},
		{"sync bank/web --subject bob --groups robots --policy " + manifests, 1, "no: no rule allows bob, robots to sync applications bank/web\n", ""},
		{"sync shop/web --groups dev --match-mode glob --policy " + csv + " --policy " + manifests, 0, "yes: ", ""},
		{"delete shop/web --subject alice --match-mode glob --policy " + manifests, 1, "no: no rule", ""},
		{"sync web --subject alice --policy " + csv, 2, "", `"web" names no project: write PROJECT/web`},
		{"list shop/web --subject alice --policy " + csv, 2, "", `the verb "list" is not known: choose one of get,`},
		{"get web --resource pods --subject alice --policy " + csv, 2, "", `--resource "pods" is not known`},
		{"get shop/web --subject alice", 2, "", "--subject is for a policy in files: name them with --policy"},
		{"exec shop/web", 2, "", `the verb "exec" is none of the platform: choose one of [get sync`},
		{"get web", 2, "", `"web" is no Application: write PROJECT/APPLICATION`},
		{"get a/b/c/d", 2, "", `"a/b/c/d" is no Application`},
		{"get shop/web", 2, "", "no platform is chosen"},
		{"get shop/web --policy " + csv, 2, "", "--subject or --groups is missing"},
		{"get shop/web --subject a --match-mode globs --policy " + csv, 2, "", `--match-mode "globs" is neither glob nor regex`},
		{"get shop/web --subject a --policy " + csv + ".gone", 2, "", "no such file"},
		{"get shop/web --subject a --policy " + manifests + " --policy " + second, 2, "", "second.yaml: there is a second ConfigMap argocd-rbac-cm"},
		{"get shop/web --subject a --policy " + write("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-rbac-cm}\ndata: [1]\n"), 2, "", "bad.yaml: ConfigMap argocd-rbac-cm: json"},
		{"get shop/web --subject a --policy " + write("odd.yaml", "apiVersion: v1\nkind: [\nmetadata:\n"), 2, "", "odd.yaml"},
		{"get shop/web --subject a --policy " + write("large.csv", strings.Repeat("# x\n", 2<<20)), 2, "", "bytes"},
	} {
		got := clitest.Run(t, "account can "+test.args)
		if got.Code != test.code || !strings.HasPrefix(got.Stdout, test.stdout) || (test.stdout == "") != (got.Stdout == "") || !strings.Contains(got.Stderr, test.stderr) {
			t.Errorf("%s:\n got %+v\nwant %d %q %q", test.args, got, test.code, test.stdout, test.stderr)
		}
	}
	got := clitest.Run(t, "account can sync shop/web --groups dev -o json --policy "+csv)
	var decision struct {
		Allowed   bool
		Rule, Why string
	}
	if err := json.Unmarshal([]byte(got.Stdout), &decision); err != nil || !decision.Allowed || decision.Rule == "" || decision.Why == "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestCanOnPlatform: the platform decides for the user of the context, by the
// role and by the policy that the runtime reported.
func TestCanOnPlatform(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	clitest.Beat(t, w.Registered(t, "prod"), &platformv1.HeartbeatRequest{AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL, Rights: &platformv1.RightsPolicy{Config: map[string]string{
		"policy.csv": "p, grace@example.com, applications, sync, shop/*, allow\np, grace@example.com, applications, sync, shop/team/*, deny\np, grace@example.com, applications, create, shop/*, allow\n",
	}}})
	check := func(w *clitest.PlatformWorld, line string, code int, want string) {
		t.Helper()
		if got := w.Run(t, "account can "+line); got.Code != code || !strings.HasPrefix(got.Stdout+got.Stderr, want) {
			t.Errorf("%s: got %+v, want %d %q", line, got, code, want)
		}
	}
	check(w, "delete bank/vault", 0, "yes: a rule allows it to ")
	check(w, "delete bank/vault --runtime test", 2, "slipway: ")
	password := w.Must(t, "account users create grace@example.com --role viewer")
	grace := &clitest.PlatformWorld{Url: w.Url, Home: t.TempDir(), Log: w.Log}
	if got := grace.RunWith(t, password+clitest.ChosenPassword+" too\n", "login "+w.Url+" --email grace@example.com --password-stdin"); got.Code != 0 {
		t.Fatalf("grace: %+v", got)
	}
	check(grace, "sync shop/web", 0, "yes: a rule allows it to grace@example.com\n  data[policy.csv] line 1: p, grace@example.com,")
	check(grace, "sync shop/team/web", 1, "no: a rule denies it to grace@example.com, and a deny wins over every allow\n  data[policy.csv] line 2:")
	check(grace, "create shop/apps", 0, "yes: a rule allows it to grace@example.com\n  data[policy.csv] line 3: p, grace@example.com,")
	check(grace, "create bank/apps", 1, "no: no rule allows grace@example.com, slipway:viewer to create applications bank/apps\n")
	check(grace, "update shop/apps", 1, "no: no rule allows grace@example.com, slipway:viewer to update applications shop/apps\n")
	check(grace, "logs shop/web --runtime prod", 1, "no: no rule allows grace@example.com, slipway:viewer to get logs shop/web\n")
	// The input is a policy as well.
	if got := grace.RunWith(t, canPolicy, "account can sync shop/web --groups dev --policy -"); got.Code != 0 || !strings.Contains(got.Stdout, "input line 1:") {
		t.Errorf("got %+v", got)
	}
	large := strings.Repeat("#", 4<<20+1)
	if got := grace.RunWith(t, large, "account can sync shop/web --groups dev --policy -"); got.Code != 2 || !strings.Contains(got.Stderr, "more than 4194304 bytes") {
		t.Errorf("got %+v", got)
	}
}

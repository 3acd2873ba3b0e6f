package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// R32: only an admin registers runtimes; a key that can do nothing else is enough.
func TestRegisterNeedsAdmin(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			role  store.Role
			scope string
			code  connect.Code
		}{
			"admin":        {store.RoleAdmin, identity.ScopeAll, 0},
			"register key": {store.RoleAdmin, identity.ScopeRuntimeRegister, 0},
			"user":         {store.RoleOperator, identity.ScopeAll, connect.CodePermissionDenied},
			"user's key":   {store.RoleOperator, identity.ScopeRuntimeRegister, connect.CodePermissionDenied},
			"reading key":  {store.RoleAdmin, identity.ScopeRead, connect.CodePermissionDenied},
		} {
			given := registration("r-"+strings.NewReplacer(" ", "", "'", "").Replace(name), name)
			_, err := w.with(t, w.key(t, c.role, c.scope)).runtimes.RegisterRuntime(t.Context(), connect.NewRequest(given))
			if (c.code == 0) != (err == nil) || (err != nil && connect.CodeOf(err) != c.code) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := w.with(t, "").runtimes.RegisterRuntime(t.Context(), connect.NewRequest(registration("nobody", "c")))
		wantError(t, "nobody", err, connect.CodeUnauthenticated, "")
	})
}

// R33, R43: a name follows the rule and is one runtime's in the account. R3: a
// namespace of a cluster has one runtime.
func TestRegisterRules(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		change := func(do func(*platformv1.RegisterRuntimeRequest)) *platformv1.RegisterRuntimeRequest {
			given := registration("other", "west")
			do(given)
			return given
		}
		for name, c := range map[string]struct {
			given *platformv1.RegisterRuntimeRequest
			code  connect.Code
			part  string
		}{
			"upper case":       {registration("Prod", "west"), connect.CodeInvalidArgument, "lower-case"},
			"digit first":      {registration("1prod", "west"), connect.CodeInvalidArgument, "begin with a letter"},
			"39 characters":    {registration(strings.Repeat("a", 39), "west"), connect.CodeInvalidArgument, "at most 38"},
			"none":             {registration("", "west"), connect.CodeInvalidArgument, "needs a name"},
			"taken":            {registration("prod", "west"), connect.CodeAlreadyExists, `such as "prod-2"`},
			"same namespace":   {registration("second", "east"), connect.CodeFailedPrecondition, `has the runtime "prod" already`},
			"no cluster":       {change(func(g *platformv1.RegisterRuntimeRequest) { g.ClusterUid = "" }), connect.CodeInvalidArgument, "UID"},
			"no namespace":     {change(func(g *platformv1.RegisterRuntimeRequest) { g.Namespace = "" }), connect.CodeInvalidArgument, "namespace"},
			"no mode":          {change(func(g *platformv1.RegisterRuntimeRequest) { g.AccessMode = 0 }), connect.CodeInvalidArgument, "access mode"},
			"mode of tomorrow": {change(func(g *platformv1.RegisterRuntimeRequest) { g.AccessMode = 77 }), connect.CodeInvalidArgument, "access mode"},
			"mesh, no URL":     {change(func(g *platformv1.RegisterRuntimeRequest) { g.AccessMode = platformv1.AccessMode_ACCESS_MODE_MESH }), connect.CodeInvalidArgument, "access URL"},
			"tunnel with URL":  {change(func(g *platformv1.RegisterRuntimeRequest) { g.AccessUrl = "https://x.example.com" }), connect.CodeInvalidArgument, "leave it empty"},
			"long version":     {change(func(g *platformv1.RegisterRuntimeRequest) { g.Version = strings.Repeat("1", 600) }), connect.CodeInvalidArgument, "at most"},
			"moved while online": {change(func(g *platformv1.RegisterRuntimeRequest) {
				g.Name, g.ClusterUid, g.Namespace = "prod", "uid-east", "elsewhere"
			}), connect.CodeAlreadyExists, "is online in the namespace slipway"},
		} {
			_, err := w.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(c.given))
			wantError(t, name, err, c.code, c.part)
		}
		elsewhere := change(func(g *platformv1.RegisterRuntimeRequest) {
			g.Name, g.ClusterUid, g.Namespace = "second", "uid-east", "elsewhere"
		})
		if _, err := w.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(elsewhere)); err != nil {
			t.Errorf("another namespace of the cluster: %v", err)
		}
		if _, err := w.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(registration(strings.Repeat("a", 38), "west"))); err != nil {
			t.Errorf("38 characters: %v", err)
		}
	})
}

// R3, R33: of runtimes that register at the same time, at replicas that know
// nothing of each other, one gets a place and one gets a name; the others hear who
// has it.
func TestRegisterAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	one := newWorld(t, url)
	two := one.replica(t, url)
	const many = 6
	compete := func(name, cluster func(int) string) (won int, refusals []error) {
		t.Helper()
		answers := make(chan error, many)
		for i := range many {
			go func() {
				at := []*world{one, two}[i%2]
				_, err := at.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(registration(name(i), cluster(i))))
				answers <- err
			}()
		}
		for range many {
			if err := <-answers; err != nil {
				refusals = append(refusals, err)
			} else {
				won++
			}
		}
		return won, refusals
	}
	numbered := func(prefix string) func(int) string { return func(i int) string { return fmt.Sprint(prefix, i) } }
	always := func(text string) func(int) string { return func(int) string { return text } }
	// Several rounds: in the first the callers' keys are noted as used, which takes
	// them a different time.
	for round := range 4 {
		won, refusals := compete(numbered(fmt.Sprintf("r%d-", round)), always(fmt.Sprint("east-", round)))
		for _, err := range refusals {
			wantError(t, "the place", err, connect.CodeFailedPrecondition, fmt.Sprintf(`of this cluster has the runtime "r%d-`, round))
		}
		if won != 1 {
			t.Errorf("%d runtimes have one place", won)
		}
		same := fmt.Sprint("same-", round)
		won, refusals = compete(always(same), numbered(fmt.Sprintf("cluster-%d-", round)))
		for _, err := range refusals {
			wantError(t, "the name", err, connect.CodeAlreadyExists, fmt.Sprintf(`has the runtime %q: choose another name`, same))
		}
		if won != 1 {
			t.Errorf("%d runtimes have one name", won)
		}
	}
}

// TestRegisterAgain: the same runtime gets new credentials when it is offline, and
// the old ones are void.
func TestRegisterAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		before, credential := w.join(t, "prod", "east")
		heartbeat(t, before, beat())
		first := w.get(t, "prod")
		w.clock.pass(time.Minute)
		after, again := w.join(t, "prod", "east")
		if got := w.get(t, "prod"); got.GetId() != first.GetId() || !got.GetConfigurationRuntime() {
			t.Errorf("it is another runtime: %v", got)
		}
		heartbeat(t, after, beat())
		_, err := before.agent.Heartbeat(t.Context(), connect.NewRequest(beat()))
		wantError(t, "the old access token", err, connect.CodeUnauthenticated, "")
		_, err = before.agent.RenewCredential(t.Context(), connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: credential.GetRefreshToken()}))
		wantError(t, "the old refresh token", err, connect.CodeUnauthenticated, "register the runtime again")
		if again.GetTunnelHost() != w.accountID+"-prod.tunnels.example.com" || len(again.GetTunnelUrls()) != 1 || !strings.Contains(again.GetPlatformKeys(), `"kid"`) {
			t.Errorf("got %v", again)
		}
	})
}

// TestTakeOver: a key that registers runtimes does not take the place of one that is
// online, nor change what is known of it, until an admin revokes its credentials.
func TestTakeOver(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		victim, credential := w.join(t, "prod", "east")
		heartbeat(t, victim, beat())
		thief := w.with(t, w.key(t, store.RoleAdmin, identity.ScopeRuntimeRegister))
		stolen := registration("prod", "east")
		stolen.AccessMode, stolen.AccessUrl = platformv1.AccessMode_ACCESS_MODE_INGRESS, "https://evil.example.com"
		_, err := thief.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(stolen))
		wantError(t, "while it is online", err, connect.CodeFailedPrecondition, "slipway runtime revoke prod")
		if got := w.get(t, "prod"); strings.Contains(got.GetAccessUrl(), "evil") {
			t.Errorf("requests go to %s", got.GetAccessUrl())
		}
		heartbeat(t, victim, beat())
		if _, err := victim.agent.RenewCredential(t.Context(), connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: credential.GetRefreshToken()})); err != nil {
			t.Errorf("its refresh token: %v", err)
		}
		if _, err := w.admin.runtimes.RevokeCredentials(t.Context(), connect.NewRequest(&platformv1.RevokeCredentialsRequest{Name: "prod"})); err != nil {
			t.Fatal(err)
		}
		if _, err := thief.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(registration("prod", "east"))); err != nil {
			t.Errorf("after an admin has allowed it: %v", err)
		}
	})
}

// R53: a runtime behind an Ingress gets the host of its tunnel with its credential
// all the same, for when it goes back; others see the Ingress only.
func TestModeIsChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, credential := w.join(t, "prod", "east")
		told := beat()
		told.AccessMode, told.AccessUrl = platformv1.AccessMode_ACCESS_MODE_INGRESS, "https://prod.example.com"
		heartbeat(t, agent, told)
		if got := w.get(t, "prod"); got.GetAccessUrl() != "https://prod.example.com" || got.GetAccessMode() != told.GetAccessMode() {
			t.Errorf("it is reached at %q by %s", got.GetAccessUrl(), got.GetAccessMode())
		}
		renewed, err := agent.agent.RenewCredential(t.Context(), connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: credential.GetRefreshToken()}))
		if err != nil || renewed.Msg.GetCredential().GetTunnelHost() != w.accountID+"-prod.tunnels.example.com" {
			t.Errorf("the credential is %v, %v", renewed, err)
		}
	})
}

// R33, R43: problems of a name are reported, and an available one is proposed.
func TestCheckName(t *testing.T) {
	w := newWorld(t, "sqlite://"+t.TempDir()+"/p.db")
	w.join(t, "prod", "east")
	w.join(t, "prod-2", "west")
	long := strings.Repeat("a", 38)
	w.join(t, long, "north")
	for name, want := range map[string]*platformv1.CheckNameResponse{
		"fresh":     {Free: true, Proposal: "fresh"},
		"prod":      {Proposal: "prod-3", Reason: "already"},
		long:        {Proposal: long[:36] + "-2", Reason: "already"},
		"My Prod!":  {Proposal: "my-prod", Reason: "lower-case"},
		"42":        {Proposal: "slipway", Reason: "begin with a letter"},
		"":          {Proposal: "slipway", Reason: "needs a name"},
		long + "bb": {Proposal: long[:36] + "-2", Reason: "at most 38"},
	} {
		answer, err := w.admin.runtimes.CheckName(t.Context(), connect.NewRequest(&platformv1.CheckNameRequest{Name: name}))
		if err != nil {
			t.Fatal(err)
		}
		got := answer.Msg
		if got.GetFree() != want.GetFree() || got.GetProposal() != want.GetProposal() || !strings.Contains(got.GetReason(), want.GetReason()) {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// R119: the first runtime is the configuration runtime, and there is one.
func TestConfigurationRuntime(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.join(t, "one", "east")
		agent, _ := w.join(t, "two", "west")
		expect := func(step string, one, two bool) {
			t.Helper()
			if got := w.get(t, "one").GetConfigurationRuntime(); got != one {
				t.Errorf("%s: one is %v", step, got)
			}
			if got := w.get(t, "two").GetConfigurationRuntime(); got != two {
				t.Errorf("%s: two is %v", step, got)
			}
		}
		expect("first", true, false)
		yes, no, name := true, false, "three"
		if _, err := w.admin.runtimes.UpdateRuntime(t.Context(), connect.NewRequest(&platformv1.UpdateRuntimeRequest{Name: "two", ConfigurationRuntime: &yes})); err != nil {
			t.Fatal(err)
		}
		expect("changed", false, true)
		if !heartbeat(t, agent, beat()).GetConfigurationRuntime() {
			t.Error("the runtime does not hear of it")
		}
		_, err := w.admin.runtimes.UpdateRuntime(t.Context(), connect.NewRequest(&platformv1.UpdateRuntimeRequest{Name: "two", ConfigurationRuntime: &no}))
		wantError(t, "none", err, connect.CodeFailedPrecondition, "make another one")
		_, err = w.admin.runtimes.UpdateRuntime(t.Context(), connect.NewRequest(&platformv1.UpdateRuntimeRequest{Name: "two", NewName: &name}))
		wantError(t, "rename", err, connect.CodeFailedPrecondition, "cannot be renamed")
		given := registration("three", "north")
		given.ConfigurationRuntime = true
		if _, err := w.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(given)); err != nil {
			t.Fatal(err)
		}
		expect("asked for at registration", false, false)
	})
}

package fleet_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// R57, R58, R59: the provider and its API follow from the repository, and can be
// given.
func TestGitSettingsAreCompleted(t *testing.T) {
	w := newWorld(t, "sqlite://"+t.TempDir()+"/p.db")
	for _, c := range []struct {
		repository, provider, api string // given
		wantProvider, wantAPI     string
	}{
		{"https://github.com/acme/config.git", "", "", "github", "https://api.github.com"},
		{"https://gitlab.com/acme/config.git/blue?ref=main", "", "", "gitlab", "https://gitlab.com/api/v4"},
		{"git@bitbucket.org:acme/config.git", "", "", "bitbucket", "https://api.bitbucket.org/2.0"},
		{"https://git.example.com/acme/config.git", "github", "", "github", "https://git.example.com/api/v3"},
		{"https://git.example.com/acme/config.git", "gitlab", "", "gitlab", "https://git.example.com/api/v4"},
		{"https://git.example.com/scm/acme/config.git", "bitbucket-server", "", "bitbucket-server", "https://git.example.com"},
		{"https://git.example.com/acme/config.git", "gitlab", "https://api.example.com/api/v4", "gitlab", "https://api.example.com/api/v4"},
	} {
		answer, err := w.admin.git.SetGitSettings(t.Context(), connect.NewRequest(&platformv1.SetGitSettingsRequest{Settings: &platformv1.GitSettings{
			SharedRepository: c.repository, Provider: c.provider, ApiUrl: c.api, Validated: true,
		}}))
		if err != nil {
			t.Errorf("%s: %v", c.repository, err)
			continue
		}
		got := answer.Msg.GetSettings()
		if got.GetProvider() != c.wantProvider || got.GetApiUrl() != c.wantAPI || got.GetSharedRepository() != c.repository || got.GetValidated() {
			t.Errorf("%s: got %v", c.repository, got)
		}
	}
	for name, c := range map[string]struct {
		settings *platformv1.GitSettings
		part     string
	}{
		"none":        {nil, "no URL"},
		"unknown":     {&platformv1.GitSettings{SharedRepository: "https://127.0.0.1:1/acme/config.git"}, "set it to github"},
		"no provider": {&platformv1.GitSettings{SharedRepository: "https://github.com/acme/config.git", Provider: "svn"}, ""},
		"credentials": {&platformv1.GitSettings{SharedRepository: "https://token@github.com/acme/config.git"}, "credentials"},
		"API":         {&platformv1.GitSettings{SharedRepository: "https://github.com/acme/config.git", Provider: "github", ApiUrl: "ftp://x"}, ""},
	} {
		_, err := w.admin.git.SetGitSettings(t.Context(), connect.NewRequest(&platformv1.SetGitSettingsRequest{Settings: c.settings}))
		wantError(t, name, err, connect.CodeInvalidArgument, c.part)
	}
}

// R56, R115: the settings are one for all runtimes, are frozen once a runtime has
// validated them, which is to reach the repository that is set, and are reset only
// when no runtime is active.
func TestGitSettingsFreeze(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		set := func(repository string) error {
			_, err := w.admin.git.SetGitSettings(t.Context(), connect.NewRequest(&platformv1.SetGitSettingsRequest{
				Settings: &platformv1.GitSettings{SharedRepository: repository},
			}))
			return err
		}
		reset := func() error {
			_, err := w.admin.git.ResetGitSettings(t.Context(), connect.NewRequest(&platformv1.ResetGitSettingsRequest{}))
			return err
		}
		const one, two = "https://github.com/acme/one.git", "https://github.com/acme/two.git"
		agent, _ := w.join(t, "prod", "east")
		if told := heartbeat(t, agent, beat()); told.GetGitSettings() != nil {
			t.Errorf("nothing is set: %v", told)
		}
		for _, step := range []error{set(one), set(two), reset(), set(one)} {
			if step != nil {
				t.Fatal(step)
			}
		}
		for name, given := range map[string]*platformv1.HeartbeatRequest{
			"the one before":  {SharedRepositoryValid: true, SharedRepository: two},
			"one without say": {SharedRepositoryValid: true},
			"out of reach":    {SharedRepository: one},
		} {
			told := beat()
			told.SharedRepositoryValid, told.SharedRepository = given.GetSharedRepositoryValid(), given.GetSharedRepository()
			if got := heartbeat(t, agent, told).GetGitSettings(); got.GetSharedRepository() != one || got.GetValidated() {
				t.Errorf("%s freezes the settings: %v", name, got)
			}
		}
		valid := beat()
		valid.SharedRepositoryValid, valid.SharedRepository = true, one
		if told := heartbeat(t, agent, valid).GetGitSettings(); told.GetSharedRepository() != one || !told.GetValidated() {
			t.Errorf("told %v", told)
		}
		wantError(t, "a change", set(two), connect.CodeFailedPrecondition, "cannot be changed")
		if err := set(one); err != nil {
			t.Errorf("the same again: %v", err)
		}
		wantError(t, "a reset", reset(), connect.CodeFailedPrecondition, `"prod" is online`)
		w.clock.pass(46 * time.Second)
		if err := reset(); err != nil {
			t.Errorf("a reset with no active runtime: %v", err)
		}
		if err := set(two); err != nil {
			t.Errorf("after the reset: %v", err)
		}
		user := w.with(t, w.key(t, store.RoleOperator, identity.ScopeAll))
		_, err := user.git.ResetGitSettings(t.Context(), connect.NewRequest(&platformv1.ResetGitSettingsRequest{}))
		wantError(t, "a user", err, connect.CodePermissionDenied, "")
		if got, err := user.git.GetGitSettings(t.Context(), connect.NewRequest(&platformv1.GetGitSettingsRequest{})); err != nil || got.Msg.GetSettings().GetSharedRepository() != two {
			t.Errorf("a user reads %v, %v", got, err)
		}
	})
}

package privatenet

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestExplainRefusal(t *testing.T) {
	tests := []struct {
		name     string
		settings map[string]string
		want     []string
	}{
		{"nothing known", nil, []string{"CAP_SYS_ADMIN"}},
		{"all permitted", map[string]string{"user/max_user_namespaces": "96343\n"}, []string{"CAP_SYS_ADMIN"}},
		{"no user namespaces", map[string]string{"user/max_user_namespaces": "0\n"}, []string{"user.max_user_namespaces="}},
		{"two reasons",
			map[string]string{"kernel/unprivileged_userns_clone": "0\n", "kernel/apparmor_restrict_unprivileged_userns": "1\n"},
			[]string{"kernel.unprivileged_userns_clone=1", "kernel.apparmor_restrict_unprivileged_userns=0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			settings := fstest.MapFS{}
			for file, value := range test.settings {
				settings[file] = &fstest.MapFile{Data: []byte(value)}
			}
			got := explainRefusal(settings)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want it to contain %q", got, want)
				}
			}
		})
	}
}

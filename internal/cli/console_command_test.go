package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// consoleCases are texts of the console, which its own tests check as well.
const consoleCases = "../../web/src/pages/wizard/install-command.cases.json"

// The wizard of the console shows the texts that runtime install prints, in every
// mode, and its command of this program is one that prints them.
func TestConsoleCommands(t *testing.T) {
	path := must.Get(filepath.Abs(consoleCases))(t)
	text := must.Get(os.ReadFile(path))(t)
	var cases []struct{ Slipway, Helm, Terraform string }
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 4 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	w.Must(t, "runtime install prod --create-key --print helm") // makes prod.key
	placeholders := strings.NewReplacer(w.Home+"/", "", w.Url, "URL", clitest.AccountOf(t, w), "ACCOUNT")
	for _, one := range cases {
		login, command, found := strings.Cut(one.Slipway, "\n")
		if !found || login != "slipway login URL" {
			t.Fatalf("the commands are %q", one.Slipway)
		}
		command = strings.TrimPrefix(strings.TrimSpace(command), "slipway ")
		command = strings.Replace(command, "--create-key", "--key-file prod.key", 1)
		for form, want := range map[string]string{"helm": one.Helm, "terraform": one.Terraform} {
			if got := placeholders.Replace(w.Must(t, command+" --print "+form)); got != want {
				t.Errorf("%s --print %s:\n%s\nthe console has\n%s", command, form, got, want)
			}
		}
	}
}

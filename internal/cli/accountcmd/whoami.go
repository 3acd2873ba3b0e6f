package accountcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Whoami returns the command slipway whoami. It shows the user, the account and
// the key that requests are made with, as the platform sees them and not as the
// context has stored them.
func Whoami() *cobra.Command {
	choice := &apiclient.Choice{}
	command := &cobra.Command{Use: "whoami", Short: "Show the current user", Args: cobra.NoArgs}
	choice.AddFlags(command.Flags())
	_ = command.RegisterFlagCompletionFunc("platform-context", apiclient.CompleteContexts) // the flag is there
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		me, err := apiclient.Call(command.Context(), client, client.Auth().Me, &platformv1.MeRequest{})
		if err != nil {
			return err
		}
		return printer.Show(command, output, me, func(w io.Writer) error {
			facts, flush := printer.NewTable(w)
			facts.Row("Email:", me.GetUser().GetEmail())
			facts.Row("Name:", printer.OrDash(me.GetUser().GetName()))
			facts.Row("Role:", apiclient.RoleName(me.GetUser().GetRole()))
			if groups := me.GetUser().GetGroups(); len(groups) > 0 {
				facts.Row("Groups:", strings.Join(groups, ", "))
			}
			facts.Row("Account:", me.GetAccount().GetName()+" ("+me.GetAccount().GetId()+")")
			// The URL is of the context, the version of the response.
			facts.Row("Platform:", client.URL+", version "+printer.OrDash(me.GetPlatformVersion()))
			if key := me.GetKey(); key != nil {
				facts.Row("Key:", fmt.Sprintf("%s (%s), scope %s, expires %s", key.GetName(), key.GetPrefix(), scopeWords(key.GetScopes()), printer.Expiry(key.GetExpiresAt())))
			}
			return flush()
		})
	})
	return command
}

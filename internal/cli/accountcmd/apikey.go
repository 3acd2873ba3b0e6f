package accountcmd

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// APIKey returns the command slipway api-key. Keys belong to the user who
// creates them; admins also list those of the account.
func APIKey() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("api-key", "Manage API keys", choice, false)
	command.AddCommand(apiKeyCreateCommand(choice), apiKeyListCommand(choice), apiKeyRevokeCommand(choice))
	return command
}

// apiKeyCreateCommand returns the command that creates a key. The secret is
// printed alone on standard output and exists nowhere else afterwards: the
// platform keeps only its hash.
func apiKeyCreateCommand(choice *apiclient.Choice) *cobra.Command {
	var scopes []string
	life := platformDefault
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a key, and print its secret once",
		Long: `Creates an API key for you. Standard output has only its secret, which is not shown
again; everything else goes to standard error. The key is revoked together with the
key of slipway login: to create a key that outlives your login, use the console.`,
		Example: `  slipway api-key create ci --scope read --lifetime 30d > key.txt
  slipway api-key create prod-runtime --scope runtime-register --lifetime 1d`,
		Args: cobra.ExactArgs(1),
	}
	command.Flags().StringSliceVar(&scopes, "scope", []string{"all"}, "permissions of the key: all, read or runtime-register")
	command.Flags().Var(&life, "lifetime", "lifetime of the key, such as 12h or 90d; 0 means no expiry, if the platform allows it (default that of the platform, usually 90d)")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		wanted := &platformv1.CreateKeyRequest{Name: args[0]}
		// All scopes are parsed before the request, so that a typo creates no
		// key.
		for _, word := range scopes {
			scope, err := parseScope(word)
			if err != nil {
				return err
			}
			wanted.Scopes = append(wanted.Scopes, scope)
		}
		if life != platformDefault {
			wanted.Lifetime = durationpb.New(time.Duration(life))
		}
		response, err := apiclient.Call(command.Context(), client, client.Keys().CreateKey, wanted)
		if err != nil {
			return err
		}
		// The note goes to standard error: the secret is the only line on
		// standard output and can be redirected to a file.
		key := response.GetKey()
		printer.Note(command, "Key %s (ID %s, scope %s) expires %s. Its secret is not shown again:", key.GetName(), key.GetId(), scopeWords(key.GetScopes()), printer.Expiry(key.GetExpiresAt()))
		_, err = fmt.Fprintln(command.OutOrStdout(), response.GetSecret())
		return err
	})
	return command
}

// apiKeyListCommand returns the command that lists keys by ID and prefix. The
// platform has no secrets to return, so a lost one is replaced by a new key.
func apiKeyListCommand(choice *apiclient.Choice) *cobra.Command {
	var revoked bool
	command := &cobra.Command{Use: "list", Short: "List your keys; admins see all keys of the account", Args: cobra.NoArgs}
	command.Flags().BoolVar(&revoked, "include-revoked", false, "include revoked keys")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		// All pages before the first line: the table needs the widths of its
		// columns.
		all, err := apiclient.AllPages(func(page string) ([]*platformv1.Key, string, error) {
			response, err := apiclient.Call(command.Context(), client, client.Keys().ListKeys, &platformv1.ListKeysRequest{IncludeRevoked: revoked, PageSize: apiclient.PageSize, PageToken: page})
			return response.GetKeys(), response.GetNextPageToken(), err
		})
		if err != nil {
			return err
		}
		return printer.Show(command, output, &platformv1.ListKeysResponse{Keys: all}, func(w io.Writer) error {
			return printer.List(w, []string{"ID", "NAME", "PREFIX", "SCOPE", "CREATED", "EXPIRES", "LAST_USED", "REVOKED"}, all, func(key *platformv1.Key) []string {
				return []string{key.GetId(), key.GetName(), key.GetPrefix(), scopeWords(key.GetScopes()), printer.Timestamp(key.GetCreatedAt()),
					printer.Expiry(key.GetExpiresAt()), printer.Timestamp(key.GetLastUsedAt()), printer.Timestamp(key.GetRevokedAt())}
			})
		})
	})
	return command
}

// apiKeyRevokeCommand returns the command that revokes a key by ID. A whole key
// as argument is refused before anything is sent: it would be in the shell's
// history already, and is not an ID.
func apiKeyRevokeCommand(choice *apiclient.Choice) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke a key", Args: cobra.ExactArgs(1),
		RunE: apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
			// A key has the form slw_ID_SECRET, and an ID has no underscore.
			if strings.Count(args[0], "_") >= 2 {
				return exit.UsageError{Err: fmt.Errorf("this looks like a key, which does not belong into a command line: give its ID, which slipway api-key list shows")}
			}
			if err := client.RevokeKey(command.Context(), args[0]); err != nil {
				return err
			}
			printer.Note(command, "The key %s is revoked, and so are the keys that were created with it.", args[0])
			return nil
		}),
	}
}

// parseScope parses the scope of a key by the name of its enum value:
// runtime-register becomes SCOPE_RUNTIME_REGISTER. A scope that the API gains
// later needs no change here. The zero value is refused: it is the unspecified
// one.
func parseScope(word string) (platformv1.Scope, error) {
	value, ok := platformv1.Scope_value["SCOPE_"+strings.ToUpper(strings.ReplaceAll(word, "-", "_"))]
	if !ok || value == 0 {
		return 0, exit.UsageError{Err: fmt.Errorf("--scope %q is not known: choose all, read or runtime-register", word)}
	}
	return platformv1.Scope(value), nil
}

// scopeWords formats scopes, sorted, so that output does not depend on the
// order of the API.
func scopeWords(scopes []platformv1.Scope) string {
	var words []string
	for _, scope := range scopes {
		words = append(words, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(scope.String(), "SCOPE_")), "_", "-"))
	}
	// The API has no order of scopes.
	slices.Sort(words)
	return printer.OrDash(strings.Join(words, ","))
}

// lifetime is a flag value: a duration that may be given in days, which
// time.ParseDuration does not have.
type lifetime time.Duration

// platformDefault leaves the lifetime to the platform. Set refuses negative
// values, so a flag never has it.
const platformDefault lifetime = -1

// Set parses a duration such as 12h or 90d.
func (l *lifetime) Set(text string) error {
	parsed, err := apiclient.ParseDuration(text)
	if err == nil {
		*l = lifetime(parsed)
	}
	return err
}

// String formats the duration as Set parses it, whole days as days, so that the
// default in the help reads 90d and not 2160h0m0s.
func (l *lifetime) String() string {
	const day = 24 * time.Hour
	if *l == platformDefault {
		return ""
	}
	if d := time.Duration(*l); d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return time.Duration(*l).String()
}

// Type names the value in help, as pflag.Value requires.
func (l *lifetime) Type() string { return "duration" }

package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// apiKeyCommand is `slipway api-key`.
func apiKeyCommand() *cobra.Command {
	choice := &platformChoice{}
	command := platformGroup("api-key", "Make, list and revoke API keys", choice, false)
	command.AddCommand(apiKeyCreateCommand(choice), apiKeyListCommand(choice), apiKeyRevokeCommand(choice))
	return command
}

func apiKeyCreateCommand(choice *platformChoice) *cobra.Command {
	var scopes []string
	life := lifetime(loginKeyLife)
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a key, and print its secret once",
		Long: `Makes an API key of yours. Its secret is printed alone on standard output and is not
shown again; everything else is on standard error.`,
		Example: `  slipway api-key create ci --scope read --lifetime 30d > key.txt
  slipway api-key create prod-runtime --scope runtime-register --lifetime 1d`,
		Args: cobra.ExactArgs(1),
	}
	command.Flags().StringSliceVar(&scopes, "scope", []string{"all"}, "what it may be used for: all, read or runtime-register")
	command.Flags().Var(&life, "lifetime", "how long it is good, such as 12h or 90d; 0 is for ever")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		wanted := &platformv1.CreateKeyRequest{Name: args[0]}
		for _, word := range scopes {
			scope, err := parseScope(word)
			if err != nil {
				return err
			}
			wanted.Scopes = append(wanted.Scopes, scope)
		}
		if life > 0 {
			wanted.Lifetime = durationpb.New(time.Duration(life))
		}
		answer, err := ask(command.Context(), client, client.keys().CreateKey, wanted)
		if err != nil {
			return err
		}
		key := answer.GetKey()
		note(command, "Key %s (ID %s, scope %s) expires %s. Its secret is not shown again:", key.GetName(), key.GetId(), scopeWords(key.GetScopes()), shownExpiry(key.GetExpiresAt()))
		_, err = fmt.Fprintln(command.OutOrStdout(), answer.GetSecret())
		return err
	})
	return command
}

func apiKeyListCommand(choice *platformChoice) *cobra.Command {
	var revoked bool
	command := &cobra.Command{Use: "list", Short: "List your keys, or all of the account as an admin", Args: cobra.NoArgs}
	command.Flags().BoolVar(&revoked, "include-revoked", false, "also those that were revoked")
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		all, err := everyPage(func(page string) ([]*platformv1.Key, string, error) {
			answer, err := ask(command.Context(), client, client.keys().ListKeys, &platformv1.ListKeysRequest{IncludeRevoked: revoked, PageSize: pageSize, PageToken: page})
			return answer.GetKeys(), answer.GetNextPageToken(), err
		})
		if err != nil {
			return err
		}
		return showMessage(command, output, &platformv1.ListKeysResponse{Keys: all}, func(w io.Writer) error {
			rows, flush := newTable(w)
			rows.row("ID", "NAME", "PREFIX", "SCOPE", "CREATED", "EXPIRES", "LAST_USED", "REVOKED")
			for _, key := range all {
				rows.row(key.GetId(), key.GetName(), key.GetPrefix(), scopeWords(key.GetScopes()), shownStamp(key.GetCreatedAt()),
					shownExpiry(key.GetExpiresAt()), shownStamp(key.GetLastUsedAt()), shownStamp(key.GetRevokedAt()))
			}
			return flush()
		})
	})
	return command
}

func apiKeyRevokeCommand(choice *platformChoice) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a key", Args: cobra.ExactArgs(1),
		RunE: withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
			if strings.Count(args[0], "_") >= 2 {
				return usageError{fmt.Errorf("this looks like a key, which does not belong into a command line: give its ID, which slipway api-key list shows")}
			}
			if err := client.revoke(command.Context(), args[0]); err != nil {
				return err
			}
			note(command, "The key %s is revoked.", args[0])
			return nil
		}),
	}
}

func parseScope(word string) (platformv1.Scope, error) {
	value, ok := platformv1.Scope_value["SCOPE_"+strings.ToUpper(strings.ReplaceAll(word, "-", "_"))]
	if !ok || value == 0 {
		return 0, usageError{fmt.Errorf("--scope %q is not known: choose all, read or runtime-register", word)}
	}
	return platformv1.Scope(value), nil
}

func scopeWords(scopes []platformv1.Scope) string {
	var words []string
	for _, scope := range scopes {
		words = append(words, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(scope.String(), "SCOPE_")), "_", "-"))
	}
	slices.Sort(words)
	return orNone(strings.Join(words, ","))
}

// shownExpiry is when something ends, for people.
func shownExpiry(at *timestamppb.Timestamp) string {
	if at == nil {
		return "never"
	}
	return shownStamp(at)
}

// lifetime is a duration that also knows days.
type lifetime time.Duration

// Set reads a duration such as 12h or 90d.
func (l *lifetime) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		number, err := strconv.Atoi(days)
		if err != nil || number < 0 || number > 36600 {
			return fmt.Errorf("%q is no number of days: write one such as 90d", text)
		}
		*l = lifetime(time.Duration(number) * 24 * time.Hour)
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q is no length of time: write one such as 12h or 90d", text)
	}
	*l = lifetime(parsed)
	return nil
}

// String is the length as Set reads it.
func (l *lifetime) String() string {
	const day = 24 * time.Hour
	if d := time.Duration(*l); d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return time.Duration(*l).String()
}

// Type names it in help.
func (l *lifetime) Type() string { return "duration" }

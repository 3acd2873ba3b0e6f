package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// logoutCommand is `slipway logout`.
func logoutCommand() *cobra.Command {
	var name string
	var force, revokeGiven bool
	command := &cobra.Command{
		Use:   "logout",
		Short: "Revoke the key of a context, and forget it",
		Long: `Revokes the API key that login made and forgets the context. A key that was given
with --api-key-file is only forgotten, because others may use it too, unless
--revoke is said.`,
		Args: cobra.NoArgs,
	}
	command.Flags().StringVar(&name, "platform-context", "", "context to leave (default the current one)")
	command.Flags().BoolVar(&force, "force", false, "forget the context although the key could not be revoked")
	command.Flags().BoolVar(&revokeGiven, "revoke", false, "also revoke a key that login did not make")
	_ = command.RegisterFlagCompletionFunc("platform-context", completeContexts) // the flag is there
	command.RunE = func(command *cobra.Command, _ []string) error {
		book, err := readContexts()
		if err != nil {
			return usageError{err}
		}
		found := book.find(cmp.Or(name, book.Current))
		if found == nil {
			return usageError{errors.New("no context is current: name one with --platform-context")}
		}
		if found.KeyMade || revokeGiven {
			if err := endKey(command, *found); err != nil && !force {
				return fmt.Errorf("the key was not revoked, and the context is kept: %w (--force forgets it, and the key stays good until it expires)", err)
			}
		}
		err = changeContexts(command.Context(), func(book *contextBook) error {
			book.remove(found.Name)
			return nil
		})
		if err == nil {
			note(command, "Signed out of %s.", found.URL)
		}
		return err
	}
	return command
}

// endKey revokes the key of a context. One that the platform does not know any
// more needs no revoking.
func endKey(command *cobra.Command, of platformContext) error {
	client, err := newPlatformClient(of)
	if err != nil {
		return err
	}
	defer client.close()
	ctx := command.Context()
	if _, err := client.auth().Me(ctx, connect.NewRequest(&platformv1.MeRequest{})); connect.CodeOf(err) == connect.CodeUnauthenticated && connect.IsWireError(err) {
		return nil
	}
	return client.revoke(ctx, of.KeyID)
}

// whoamiCommand is `slipway whoami`.
func whoamiCommand() *cobra.Command {
	choice := &platformChoice{}
	command := &cobra.Command{Use: "whoami", Short: "Say who you are to the platform", Args: cobra.NoArgs}
	choice.add(command.Flags())
	_ = command.RegisterFlagCompletionFunc("platform-context", completeContexts) // the flag is there
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := output.check(); err != nil {
			return err
		}
		client, err := choice.open()
		if err != nil {
			return err
		}
		defer client.close()
		me, err := ask(command.Context(), client, client.auth().Me, &platformv1.MeRequest{})
		if err != nil {
			return err
		}
		return showMessage(command, output, me, func(w io.Writer) error {
			facts, flush := newTable(w)
			facts.row("Email:", me.GetUser().GetEmail())
			facts.row("Name:", orNone(me.GetUser().GetName()))
			facts.row("Role:", roleWord(me.GetUser().GetRole()))
			facts.row("Account:", me.GetAccount().GetName()+" ("+me.GetAccount().GetId()+")")
			facts.row("Platform:", client.URL+", version "+orNone(me.GetPlatformVersion()))
			if key := me.GetKey(); key != nil {
				facts.row("Key:", fmt.Sprintf("%s (%s), scope %s, expires %s", key.GetName(), key.GetPrefix(), scopeWords(key.GetScopes()), shownExpiry(key.GetExpiresAt())))
			}
			return flush()
		})
	}
	return command
}

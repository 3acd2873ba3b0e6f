package accountcmd

import (
	"cmp"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Logout returns the command slipway logout. It revokes only keys that login
// created: others may be in use elsewhere. A context whose key could not be
// revoked is kept, so that the user can try again.
func Logout() *cobra.Command {
	var name string
	var force, revokeGiven bool
	command := &cobra.Command{
		Use:   "logout",
		Short: "Sign out: revoke the key of a context, and delete it",
		Long: `Revokes the API key of slipway login and deletes the context. A key from --api-key-file
is not revoked without --revoke, because others may use it too. API keys that were
created with the revoked key are revoked as well.`,
		Args: cobra.NoArgs,
	}
	command.Flags().StringVar(&name, "platform-context", "", "context to leave (default the current one)")
	command.Flags().BoolVar(&force, "force", false, "delete the context even if the key could not be revoked")
	command.Flags().BoolVar(&revokeGiven, "revoke", false, "also revoke a key that slipway login did not create")
	_ = command.RegisterFlagCompletionFunc("platform-context", apiclient.CompleteContexts) // the flag is there
	command.RunE = func(command *cobra.Command, _ []string) error {
		// Read without the lock: the requests below may take long, and
		// UpdateContexts reads the file again under it.
		book, err := apiclient.ReadContexts()
		if err != nil {
			return exit.UsageError{Err: err}
		}
		found := book.Find(cmp.Or(name, book.Current))
		if found == nil {
			return exit.UsageError{Err: errors.New("no context is current: name one with --platform-context")}
		}
		// The key is revoked before the context is removed: in the other order
		// a failed request would leave a valid key whose ID is lost.
		if found.KeyMade || revokeGiven {
			if err := endKey(command, *found); err != nil && !force {
				return fmt.Errorf("the key was not revoked, and the context is kept: %w (--force forgets it, and the key stays good until it expires)", err)
			}
		}
		// By name: another command may have changed the list since it was read.
		err = apiclient.UpdateContexts(command.Context(), func(book *apiclient.Contexts) error {
			book.Remove(found.Name)
			return nil
		})
		return printer.Done(command, err, "Signed out of %s.", found.URL)
	}
	return command
}

// endKey revokes the key of a context. A key that the platform does not accept
// any more, because it has expired or was revoked elsewhere, needs no revoking
// and is no error.
func endKey(command *cobra.Command, of apiclient.Context) error {
	client, err := apiclient.New(of)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := command.Context()
	// Only a response of the platform itself counts; a proxy's 401 proves
	// nothing.
	if _, err := client.Auth().Me(ctx, connect.NewRequest(&platformv1.MeRequest{})); connect.CodeOf(err) == connect.CodeUnauthenticated && connect.IsWireError(err) {
		return nil
	}
	return client.RevokeKey(ctx, of.KeyID)
}

package apiclient

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// RoleName returns a role as users write it: viewer, operator or admin. It derives the name
// from the enum, so a new role needs no change here.
func RoleName(role platformv1.Role) string {
	return strings.ToLower(strings.TrimPrefix(role.String(), "ROLE_"))
}

// ListUsers returns all users of the account, in the order of the platform.
func (c *Client) ListUsers(command *cobra.Command) ([]*platformv1.User, error) {
	return AllPages(func(page string) ([]*platformv1.User, string, error) {
		response, err := Call(command.Context(), c, c.Accounts().ListUsers, &platformv1.ListUsersRequest{PageSize: PageSize, PageToken: page})
		return response.GetUsers(), response.GetNextPageToken(), err
	})
}

// FindUser returns the user with an email, in any case, or an ID. The API has
// no lookup by email, so it lists all of them. No match is an error.
func (c *Client) FindUser(command *cobra.Command, name string) (*platformv1.User, error) {
	all, err := c.ListUsers(command)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.GetId() == name || strings.EqualFold(one.GetEmail(), name) {
			return one, nil
		}
	}
	return nil, fmt.Errorf("the account has no user %s: slipway account users list shows them", printer.Printable(name))
}

// RevokeKey revokes an API key by its ID. The key may be the one that the
// client itself uses.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := Call(ctx, c, c.Keys().RevokeKey, &platformv1.RevokeKeyRequest{Id: id})
	return err
}

// installKeyLife is the lifetime of a key that is created for an installation:
// long enough to install, short enough to be harmless in a forgotten file.
const installKeyLife = 24 * time.Hour

// CreateInstallKey creates a key that can register runtimes and nothing else,
// so that an installation never holds the user's own rights.
func (c *Client) CreateInstallKey(ctx context.Context, name string) (*platformv1.CreateKeyResponse, error) {
	return Call(ctx, c, c.Keys().CreateKey, &platformv1.CreateKeyRequest{
		Name: "runtime " + name, Scopes: []platformv1.Scope{platformv1.Scope_SCOPE_RUNTIME_REGISTER}, Lifetime: durationpb.New(installKeyLife),
	})
}

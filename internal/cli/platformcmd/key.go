package platformcmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
)

const (
	// operatorKeyDays is the default lifetime of a key in days.
	operatorKeyDays = 90
	// operatorKeyDaysMax bounds --days at ten years. A longer lifetime is most
	// likely a typo; 0 is the explicit way to an unlimited key.
	operatorKeyDaysMax = 3650
)

// createKeyOffer describes the task that creates a key without a sign-in, for
// programs that set a platform up. Access to the state folder or the database
// is the authorization.
func createKeyOffer() platformTask {
	return platformTask{
		use: "create-key EMAIL NAME [--register|--read] [--days N] [options]", short: "Create an API key for a user, and print it",
		words: 2, switches: []string{"register", "read"}, values: []string{"days"}, run: createKeyTask,
		long: `Creates an API key for a user, and prints it once, alone on standard output. It has all
permissions of the user; with --register only to register runtimes, with --read only
to read. It is valid for 90 days; --days sets another number, and 0 means no expiry.
For programs that set up a platform. The key works even while its user must choose a
password, and the audit log records the system as its creator.`,
		example: "  slipway platform create-key admin@example.com installer --register --days 1 > key.txt\n  slipway platform create-key admin@example.com backups --read --days 0",
	}
}

// createKeyTask creates the key, in the running platform or directly in its
// database, and prints it alone, so that scripts can redirect the output to a
// file.
func createKeyTask(ctx context.Context, call taskCall) error {
	wanted, err := call.operatorKey()
	if err != nil {
		return exit.UsageError{Err: err}
	}
	request := url.Values{"email": {wanted.Email}, "name": {wanted.Name}, "scope": {wanted.Scope}, "life": {wanted.Life.String()}}
	// The key is buffered: on an error nothing is printed that could pass for
	// one.
	var response strings.Builder
	err = call.request(ctx, "/users/create-key?"+request.Encode(), &response, func(database *store.Store) error {
		key, err := operator(database).CreateKey(ctx, wanted)
		response.WriteString(key.Reveal())
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(call.out, response.String())
	return err
}

// operatorKey parses the arguments and flags of the task. start has checked the
// number of arguments.
func (c taskCall) operatorKey() (identity.OperatorKey, error) {
	wanted := identity.OperatorKey{Email: c.words[0], Name: c.words[1], Scope: identity.ScopeAll}
	switch {
	case c.given["register"] && c.given["read"]:
		return wanted, errors.New("a key is for --register or for --read, not for both")
	case c.given["register"]:
		wanted.Scope = identity.ScopeRuntimeRegister
	case c.given["read"]:
		wanted.Scope = identity.ScopeRead
	}
	days := operatorKeyDays
	if c.given["days"] {
		given, err := strconv.Atoi(c.value["days"])
		if err != nil || given < 0 || given > operatorKeyDaysMax {
			return wanted, fmt.Errorf("--days %q is not a number of days from 0, which is for ever, to %d", c.value["days"], operatorKeyDaysMax)
		}
		days = given
	}
	// A life of 0 is unlimited.
	wanted.Life = time.Duration(days) * 24 * time.Hour
	return wanted, nil
}

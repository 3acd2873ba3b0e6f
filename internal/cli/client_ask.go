package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ask asks one question within bounds. An error says what to do.
func ask[Q, A any](
	ctx context.Context, c *platformClient, call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), question *Q,
) (*A, error) {
	bounded, cancel := context.WithTimeout(ctx, platformTimeout)
	defer cancel()
	answer, err := call(bounded, connect.NewRequest(question))
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return answer.Msg, nil
}

// everyPage collects a list until there is no next page.
func everyPage[T any](fetch func(page string) ([]T, string, error)) ([]T, error) {
	var all []T
	token := ""
	for range mostPages {
		some, next, err := fetch(token)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if next == "" {
			return all, nil
		}
		if next == token {
			break
		}
		token = next
	}
	return nil, errors.New("the platform's list has no end: this program or the platform is broken")
}

// explain says in one line what to do about an error of the platform or of a
// runtime behind it.
func (c *platformClient) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var told *connect.Error
	if !errors.As(err, &told) {
		return err
	}
	message := printable(told.Message())
	if !connect.IsWireError(err) {
		return c.explainUnreached(told, message)
	}
	switch told.Code() {
	case connect.CodeUnauthenticated:
		if c.Name == "" {
			return fmt.Errorf("the platform does not know you: check the key in %s (%s)", appKeyVariable, message)
		}
		return fmt.Errorf("the platform does not know you: run slipway login %s --name %s (%s)", c.URL, printable(c.Name), message)
	case connect.CodePermissionDenied:
		return fmt.Errorf("you may not do this: %s", message)
	}
	return errors.New(message)
}

// explainUnreached is for what did not come from the platform.
func (c *platformClient) explainUnreached(told *connect.Error, message string) error {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(told, &unknown):
		return fmt.Errorf("the certificate of %s is of an authority that this machine does not know: name its file with slipway login --ca-file", c.base())
	case errors.As(told, &wrong), errors.As(told, &verification):
		return fmt.Errorf("the certificate of %s is not good for it: %s", c.base(), message)
	case errors.Is(told, context.DeadlineExceeded):
		return fmt.Errorf("the platform at %s does not answer within %s: see whether it runs and whether this machine reaches it", c.base(), platformTimeout)
	case unreachable(told):
		return fmt.Errorf("the platform at %s does not answer: %s", c.base(), message)
	}
	return fmt.Errorf("what answers at %s is no platform, or another version of it: %s", c.base(), message)
}

// unreachable reports whether there was no connection at all.
func unreachable(err error) bool {
	var network *net.OpError
	var dns *net.DNSError
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &dns) || errors.As(err, &request) || errors.Is(err, io.ErrUnexpectedEOF)
}

// protoValue is a message as JSON has it, for -o json and yaml.
func protoValue(message proto.Message) (any, error) {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	var value any
	err = json.Unmarshal(text, &value)
	return value, err
}

// showMessage prints a message as JSON or YAML, or with what prints it to people.
func showMessage(command *cobra.Command, output *outputFlag, message proto.Message, people func(io.Writer) error) error {
	if output.form == outputTable || output.form == outputWide {
		return people(command.OutOrStdout())
	}
	value, err := protoValue(message)
	if err != nil {
		return err
	}
	return output.encode(command.OutOrStdout(), value)
}

// shownStamp is a time of a message for people.
func shownStamp(at *timestamppb.Timestamp) string {
	if at == nil || at.AsTime().Unix() == 0 {
		return "-"
	}
	return at.AsTime().UTC().Format(time.RFC3339)
}

// note tells people something that is no result.
func note(command *cobra.Command, format string, args ...any) {
	for i := range args {
		if text, ok := args[i].(string); ok {
			args[i] = printable(text)
		}
	}
	_, _ = fmt.Fprintf(command.ErrOrStderr(), format+"\n", args...)
}

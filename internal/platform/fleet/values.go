package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// maxValues bounds a values file.
const maxValues = 1 << 20

// The codes and severity of what the platform itself finds. They are those that
// slipway helm validate has.
const (
	codeAccountDiffers = "AccountDiffers"
	codeNameTaken      = "RuntimeNameTaken"
	severityError      = "error"
)

// CheckedValues is what a check of values found.
type CheckedValues struct {
	Answer *platformv1.ValidateValuesResponse
	// AccountID is the account that the values name; empty if none.
	AccountID string
}

// ValuesCheck checks values of a runtime's chart by themselves. It keeps nothing.
type ValuesCheck func(ctx context.Context, request *platformv1.ValidateValuesRequest) CheckedValues

// ValidateValues checks values, and adds what only the platform knows: R33, R34.
func (r runtimeService) ValidateValues(ctx context.Context, request *connect.Request[platformv1.ValidateValuesRequest]) (*connect.Response[platformv1.ValidateValuesResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	if r.options.Values == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this platform cannot check values: use slipway helm validate"))
	}
	if len(request.Msg.GetValues()) > maxValues {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the values have more than %d bytes", maxValues))
	}
	checked := r.options.Values(ctx, request.Msg)
	answer := checked.Answer
	add := func(code, key, reason, fix string) {
		answer.Findings = append(answer.Findings, &platformv1.ValuesFinding{Code: code, Severity: severityError, Key: key, Reason: reason, Fix: fix})
	}
	if checked.AccountID != "" && checked.AccountID != accountID {
		add(codeAccountDiffers, "global.platform.accountId", "it is another account than yours", "write "+accountID)
	}
	others, err := r.all(ctx, accountID)
	if err != nil {
		return nil, r.answer(err)
	}
	if name := answer.GetRuntime(); !request.Msg.GetUpgrade() && taken(name, others) {
		add(codeNameTaken, "global.runtime.name", fmt.Sprintf("the account has a runtime %q already", name), "choose another, such as "+cmp.Or(proposal(name, others), "slipway-2"))
	}
	answer.Ok = !slices.ContainsFunc(answer.GetFindings(), func(f *platformv1.ValuesFinding) bool { return f.GetSeverity() == severityError })
	return connect.NewResponse(answer), nil
}

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

// The codes and severity of what the platform itself finds. They are those
// that slipway helm validate has.
const (
	// Codes and severity of the findings that only the platform can detect.
	// They match those of slipway helm validate.
	codeAccountDiffers = "AccountDiffers"
	codeNameTaken      = "RuntimeNameTaken"
	severityError      = "error"
)

// CheckedValues is the result of validating values.
type CheckedValues struct {
	Response *platformv1.ValidateValuesResponse
	// AccountID is the account that the values name; empty if none.
	AccountID string
}

// ValuesCheck validates chart values by themselves. It stores nothing.
type ValuesCheck func(ctx context.Context, request *platformv1.ValidateValuesRequest) CheckedValues

// ValidateValues validates values and adds findings that need the store:
// another account (R33) and a taken name (R34).
func (r runtimeService) ValidateValues(ctx context.Context, request *connect.Request[platformv1.ValidateValuesRequest]) (*connect.Response[platformv1.ValidateValuesResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	if r.options.Values == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this platform cannot check values: use slipway helm validate --values FILE"))
	}
	if len(request.Msg.GetValues()) > maxValues {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the values have more than %d bytes", maxValues))
	}
	checked := r.options.Values(ctx, request.Msg)
	response := checked.Response
	add := func(code, key, reason, fix string) {
		response.Findings = append(response.Findings, &platformv1.ValuesFinding{Code: code, Severity: severityError, Key: key, Reason: reason, Fix: fix})
	}
	if checked.AccountID != "" && checked.AccountID != accountID {
		add(codeAccountDiffers, "global.platform.accountId", "it is another account than yours", "write "+accountID)
	}
	others, err := r.allRuntimes(ctx, accountID)
	if err != nil {
		return nil, r.apiError(err)
	}
	if name := response.GetRuntime(); !request.Msg.GetUpgrade() && taken(name, others) {
		add(codeNameTaken, "global.runtime.name", fmt.Sprintf("the account has a runtime %q already", name), "choose another, such as "+cmp.Or(proposal(name, others), "slipway-2"))
	}
	response.Ok = !slices.ContainsFunc(response.GetFindings(), func(f *platformv1.ValuesFinding) bool { return f.GetSeverity() == severityError })
	return connect.NewResponse(response), nil
}

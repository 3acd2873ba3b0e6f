package platformcmd

import (
	"cmp"
	"context"
	"strings"

	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// checkValues validates chart values for the console. The platform may not
// import the validation, so the command injects it. Without a World the
// validation checks only the values and contacts nothing, which makes it safe
// for input of users. An empty namespace is the default one of a release.
func checkValues(ctx context.Context, request *platformv1.ValidateValuesRequest) fleet.CheckedValues {
	report := validate.Run(ctx, validate.Options{
		Values: strings.NewReader(request.GetValues()), Namespace: cmp.Or(request.GetNamespace(), release.DefaultNamespace), Version: request.GetVersion(),
	})
	response := &platformv1.ValidateValuesResponse{
		Ok: report.OK(), Skipped: report.Skipped, Runtime: report.Runtime, Mode: report.Mode, Url: report.URL,
	}
	for _, found := range report.Findings {
		response.Findings = append(response.Findings, &platformv1.ValuesFinding{
			Code: found.Code, Severity: string(found.Severity), Key: found.Subject, Reason: found.Message, Fix: found.Fix,
		})
	}
	return fleet.CheckedValues{Response: response, AccountID: report.Account}
}

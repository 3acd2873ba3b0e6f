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

// checkValues validates values for the console. The platform may not import the
// validation itself, so the command hands it in; nothing outside of the values
// is contacted.
func checkValues(ctx context.Context, request *platformv1.ValidateValuesRequest) fleet.CheckedValues {
	report := validate.Run(ctx, validate.Options{
		Values: strings.NewReader(request.GetValues()), Namespace: cmp.Or(request.GetNamespace(), release.DefaultNamespace), Version: request.GetVersion(),
	})
	response := &platformv1.ValidateValuesResponse{
		Ok: report.OK(), Skipped: report.Skipped, Runtime: report.Runtime, Mode: report.Mode, Url: report.URL,
	}
	for _, found := range report.Findings {
		response.Findings = append(response.Findings, &platformv1.ValuesFinding{
			Code: found.Code, Severity: string(found.Severity), Key: found.Key, Reason: found.Reason, Fix: found.Fix,
		})
	}
	return fleet.CheckedValues{Response: response, AccountID: report.Account}
}

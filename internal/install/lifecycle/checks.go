package lifecycle

import (
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/preflight"
)

// CheckOptions derives the options of the preflight checks from the values of a
// runtime, so that the checks see what is installed. Before an installation the
// checks that the values turn off are skipped.
func CheckOptions(document values.Document, place release.Place, stage preflight.Stage) preflight.Options {
	settings, _ := release.AccessSettings(document, place.Namespace) // P13 reports what is wrong with it
	options := preflight.Options{
		Stage: stage, Settings: settings, Release: place.Release, Gateway: document.Text(values.KeyMeshGateway), KeepCRDs: document.KeepsDefinitions(),
		Token: preflight.TokenSource{
			Inline: document.Text(values.KeyToken) != "", SecretName: document.Text(values.KeyTokenRefName), SecretKey: document.Text(values.KeyTokenRefKey),
		},
	}
	if stage == preflight.Before {
		options.Skip = turnedOff(document)
	}
	return options
}

// turnedOff returns the checks that values turn off. A value that skips the
// validation of something skips every check of it: a user who has set it must
// not be stopped by another check of the same thing.
func turnedOff(document values.Document) []preflight.Code {
	all := document.Flag(values.KeySkipValidation)
	var codes []preflight.Code
	if all || document.Flag(values.KeyIngressSkip) {
		codes = append(codes, preflight.TLSCertificate, preflight.TCP, preflight.URLResponse, preflight.DNS)
	}
	if all {
		codes = append(codes, preflight.RuntimeName, preflight.TokenOrigin, preflight.AccountAdmin, preflight.AccountMatch,
			preflight.GitCredentials, preflight.GitScopes, preflight.GitExpiry, preflight.SharedRepository, preflight.GitTLS)
	}
	return codes
}

// AfterCommand returns the command that checks an installed runtime. It reads
// the access mode and everything else from the release.
func AfterCommand(place release.Place) string {
	command := "slipway preflight --stage after"
	if place.Namespace != release.DefaultNamespace {
		command += " --namespace " + handover.ShellWord(place.Namespace)
	}
	if place.Release != release.DefaultName {
		command += " --release " + handover.ShellWord(place.Release)
	}
	return command
}

package release

// TokenKey is the key of the API key in its Secret.
const TokenKey = "token"

// The defaults of an installation, which users override by flags.
const (
	DefaultChart     = "oci://charts.slipway.dev/gitops-runtime"
	DefaultName      = "slipway-runtime"
	DefaultNamespace = "slipway"
	DefaultRuntime   = "slipway"
	// TokenSecret is the Secret that the chart reads the API key from.
	TokenSecret = "slipway-user-token"
	// CASecret is the Secret with the CA certificates of the platform, under
	// CAKey.
	CASecret = "slipway-platform-ca"
	CAKey    = "ca-bundle.crt"
)

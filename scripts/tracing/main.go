// Program collector is the OpenTelemetry Collector with the components that check-tracing.sh needs: it receives OTLP and writes spans to a file, as JSON.
package main

import (
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
)

// The collector has no telemetry of its own, and so 115 packages fewer to compile.
func withoutTelemetry() telemetry.Factory {
	return telemetry.NewFactory(func() component.Config { return &struct{}{} })
}

func components() (otelcol.Factories, error) {
	factories := otelcol.Factories{Telemetry: withoutTelemetry()}
	var err error
	if factories.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return factories, err
	}
	factories.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
	return factories, err
}

func main() {
	providers := []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory()}
	settings := otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "collector", Description: "OTLP to JSON", Version: "1"},
		Factories:              components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{ProviderFactories: providers}},
	}
	// The command prints its errors.
	if otelcol.NewCommand(settings).Execute() != nil {
		os.Exit(1)
	}
}

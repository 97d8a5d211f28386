// pinfold-kube-scheduler is kube-scheduler with the plugin Pinfold, which asks the engine pinfold-scheduler.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"pinfold.dev/scheduler-plugin/pinfold"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(pinfold.Name, pinfold.New))))
}

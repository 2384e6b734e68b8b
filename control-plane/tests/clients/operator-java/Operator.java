import io.fabric8.kubernetes.api.model.ConditionBuilder;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.EventBuilder;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.OwnerReference;
import io.fabric8.kubernetes.api.model.OwnerReferenceBuilder;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * The operator of shops with fabric8's client. Each shop gets a config map and a service, and a
 * ledger that only the shop's deletion removes. It runs until its input ends.
 */
public class Operator {
  private static final String NAMESPACE = "default";
  private static final String LABEL = "stele.test/shop";
  private static final String FINALIZER = "stele.test/ledger";

  private final KubernetesClient client;
  private final ScheduledExecutorService worker = Executors.newSingleThreadScheduledExecutor();

  private Operator(KubernetesClient client) {
    this.client = client;
  }

  public static void main(String[] args) throws Exception {
    try (KubernetesClient client = new KubernetesClientBuilder().build()) {
      Operator operator = new Operator(client);
      try (SharedIndexInformer<Shop> shops = operator.watch(Shop.class, false);
          SharedIndexInformer<ConfigMap> maps = operator.watch(ConfigMap.class, true);
          SharedIndexInformer<Service> services = operator.watch(Service.class, true)) {
        System.in.readAllBytes();
        operator.worker.shutdown();
        if (!operator.worker.awaitTermination(1, TimeUnit.MINUTES)) {
          throw new IllegalStateException("the worker does not end");
        }
      }
    }
  }

  /** An informer that asks for the shop of each changed object. */
  private <T extends HasMetadata> SharedIndexInformer<T> watch(Class<T> kind, boolean children) {
    var handler =
        new ResourceEventHandler<T>() {
          @Override
          public void onAdd(T object) {
            ask(object);
          }

          @Override
          public void onUpdate(T before, T object) {
            ask(object);
          }

          @Override
          public void onDelete(T object, boolean unknown) {
            ask(object);
          }

          private void ask(T object) {
            Map<String, String> labels = object.getMetadata().getLabels();
            String shop = children ? labels.get(LABEL) : object.getMetadata().getName();
            worker.execute(() -> reconcile(shop));
          }
        };
    var objects = client.resources(kind).inNamespace(NAMESPACE);
    return children ? objects.withLabel(LABEL).inform(handler) : objects.inform(handler);
  }

  private Resource<Shop> shop(String name) {
    return client.resources(Shop.class).inNamespace(NAMESPACE).withName(name);
  }

  /** Does what a shop needs; repeats it later if that fails. */
  private void reconcile(String name) {
    try {
      Shop shop = shop(name).get();
      if (shop == null) {
        return;
      }
      if (shop.isMarkedForDeletion()) {
        close(shop);
      } else {
        keep(shop);
      }
    } catch (KubernetesClientException refused) {
      System.err.println("again, after " + refused);
      worker.schedule(() -> reconcile(name), 100, TimeUnit.MILLISECONDS);
    }
  }

  private void close(Shop shop) {
    if (!shop.hasFinalizer(FINALIZER)) {
      return;
    }
    client.configMaps().inNamespace(NAMESPACE).withName(ledger(shop)).delete();
    shop(shop.getMetadata().getName()).edit(
        found -> {
          found.removeFinalizer(FINALIZER);
          return found;
        });
  }

  private void keep(Shop shop) {
    String name = shop.getMetadata().getName();
    if (!shop.hasFinalizer(FINALIZER)) {
      shop(name).edit(
          found -> {
            found.addFinalizer(FINALIZER);
            return found;
          });
    }
    keepLedger(shop);
    keepConfigMap(shop);
    keepService(shop);
    tell(shop);
  }

  private static String ledger(Shop shop) {
    return shop.getMetadata().getName() + "-ledger";
  }

  private void keepLedger(Shop shop) {
    var ledgers = client.configMaps().inNamespace(NAMESPACE);
    if (ledgers.withName(ledger(shop)).get() == null) {
      var ledger = new ConfigMapBuilder().withNewMetadata().withName(ledger(shop)).endMetadata();
      ledgers.resource(ledger.addToData("shop", shop.getMetadata().getName()).build()).create();
    }
  }

  /** Creates the config map or changes the one that exists: a JSON patch. */
  private void keepConfigMap(Shop shop) {
    String name = shop.getMetadata().getName();
    var wanted =
        new ConfigMapBuilder()
            .withNewMetadata()
            .withName(name)
            .addToLabels(LABEL, name)
            .withOwnerReferences(owner(shop))
            .endMetadata()
            .addToData("greeting", shop.getSpec().greeting)
            .build();
    var maps = client.configMaps().inNamespace(NAMESPACE);
    ConfigMap found = maps.withName(name).get();
    if (found == null) {
      maps.resource(wanted).create();
    } else if (!found.getData().equals(wanted.getData())) {
      maps.withName(name).edit(map -> new ConfigMapBuilder(map).withData(wanted.getData()).build());
    }
  }

  /** Creates the service or replaces the one that exists: a PUT. */
  private void keepService(Shop shop) {
    String name = shop.getMetadata().getName();
    var services = client.services().inNamespace(NAMESPACE);
    Service found = services.withName(name).get();
    if (found == null) {
      var made =
          new ServiceBuilder()
              .withNewMetadata()
              .withName(name)
              .addToLabels(LABEL, name)
              .withOwnerReferences(owner(shop))
              .endMetadata()
              .withNewSpec()
              .addToSelector("app", name)
              .addNewPort()
              .withName("web")
              .withPort(shop.getSpec().port)
              .withNewTargetPort(8080)
              .endPort()
              .endSpec();
      services.resource(made.build()).create();
    } else if (found.getSpec().getPorts().get(0).getPort() != shop.getSpec().port) {
      var changed = new ServiceBuilder(found).editSpec().editFirstPort();
      services.resource(changed.withPort(shop.getSpec().port).endPort().endSpec().build()).update();
    }
  }

  private static OwnerReference owner(Shop shop) {
    return new OwnerReferenceBuilder()
        .withApiVersion(shop.getApiVersion())
        .withKind(shop.getKind())
        .withName(shop.getMetadata().getName())
        .withUid(shop.getMetadata().getUid())
        .withController(true)
        .withBlockOwnerDeletion(true)
        .build();
  }

  /** Writes the status, and one event for each generation of the shop. */
  private void tell(Shop shop) {
    long generation = shop.getMetadata().getGeneration();
    if (shop.getStatus() != null && shop.getStatus().observedGeneration == generation) {
      return;
    }
    String name = shop.getMetadata().getName();
    String says = "says " + shop.getSpec().greeting;
    String now = Instant.now().truncatedTo(ChronoUnit.SECONDS).toString();
    shop(name).editStatus(
        found -> {
          var status = found.getStatus() == null ? new Shop.Status() : found.getStatus();
          String since =
              status.conditions.isEmpty() ? now : status.conditions.get(0).getLastTransitionTime();
          status.replicas = shop.getSpec().replicas;
          status.selector = "app=" + name;
          status.observedGeneration = generation;
          status.conditions.clear();
          status.conditions.add(
              new ConditionBuilder()
                  .withType("Ready")
                  .withStatus("True")
                  .withReason("Open")
                  .withMessage(says)
                  .withLastTransitionTime(since)
                  .build());
          found.setStatus(status);
          return found;
        });
    var event =
        new EventBuilder()
            .withNewMetadata()
            .withGenerateName(name + "-")
            .endMetadata()
            .withNewInvolvedObject()
            .withApiVersion(shop.getApiVersion())
            .withKind(shop.getKind())
            .withNamespace(NAMESPACE)
            .withName(name)
            .withUid(shop.getMetadata().getUid())
            .endInvolvedObject()
            .withType("Normal")
            .withReason("Open")
            .withMessage(says)
            .withFirstTimestamp(now)
            .withLastTimestamp(now)
            .withCount(1)
            .withNewSource()
            .withComponent("operator-java")
            .endSource()
            .build();
    client.v1().events().inNamespace(NAMESPACE).resource(event).create();
  }
}

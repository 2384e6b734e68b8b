import io.fabric8.kubernetes.api.model.Condition;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Plural;
import io.fabric8.kubernetes.model.annotation.Version;
import java.util.ArrayList;
import java.util.List;

/** The custom resource of the operator. */
@Group("stele.test")
@Version("v1")
@Plural("shops")
public class Shop extends CustomResource<Shop.Spec, Shop.Status> implements Namespaced {
  private static final long serialVersionUID = 1;

  /** What is wanted. */
  public static class Spec {
    public String greeting;
    public int replicas;
    public int most;
    public int port;
  }

  /** What the operator did. */
  public static class Status {
    public int replicas;
    public String selector;
    public long observedGeneration;
    public List<Condition> conditions = new ArrayList<>();
  }
}
